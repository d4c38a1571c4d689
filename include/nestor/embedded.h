// Files that the build embedded in the program (cmake/embed.cmake), sorted by name.
#pragma once

#include <string_view>
#include <vector>

namespace nestor {

struct EmbeddedFile {
  std::string_view name;  // without its folder
  std::string_view text;
};
const std::vector<EmbeddedFile>& instruction_files();  // schedules/instructions/*.nest
const std::vector<EmbeddedFile>& definition_files();   // schedules/library/*.sched
const std::vector<EmbeddedFile>& worker_files();       // tuner/*.py
const std::vector<EmbeddedFile>& peer_files();         // bench/peers/side_by_side.py
const std::vector<EmbeddedFile>& page_files();         // src/report/page/*
const std::vector<EmbeddedFile>& emulation_files();    // src/emulate/emulation.h

}  // namespace nestor
