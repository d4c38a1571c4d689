#include "src/cli/usage.h"

#include <algorithm>

#include "nestor/nearest.h"

namespace nestor::cli {

Diagnostic usage_error(const CLI::App& app, const CLI::ParseError& e, int argc, char** argv) {
  const bool before_verb = argv[1][0] == '-';
  const std::string command = before_verb ? "nestor" : std::string("nestor ") + argv[1];
  const std::string help = before_verb
                               ? "`nestor help` lists the verbs"
                               : std::string("`nestor help ") + argv[1] + "` has the options, and examples";
  std::vector<std::string> known;
  for (const CLI::Option* o : (before_verb ? &app : app.get_subcommand(argv[1]))->get_options()) {
    for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
    for (const std::string& name : o->get_snames()) known.push_back("-" + name);
  }
  for (int i = before_verb ? 1 : 2; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--") break;
    word = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
    if (word.size() < 2 || word[0] != '-' || (word[1] >= '0' && word[1] <= '9')) continue;
    if (std::count(known.begin(), known.end(), word)) continue;
    const std::string near = word.starts_with("--") ? did_you_mean(word, known) : "";
    return {"`" + command + "` has no option " + word, {}, {}, near.empty() ? help : near};
  }
  return {e.what(), {}, {}, help};
}

}  // namespace nestor::cli
