// Whether rows wait for the next ones, and how these are asked for (join_rows.cpp has the rest of them).
#pragma once

#include <string>
#include <vector>

#include "schedules/library/planner.h"

namespace nestor::library {

// Whether rows of so many elements, in so many bytes of all operands, come from so far away that none should
// wait for others.
bool go_alone(int64_t length, int64_t bytes, int64_t lanes, const Target& target);

// Whether the map reads something along its last iterator alone: what all rows read alike.
bool reads_alike(const BlockInfo& b);

// What the root reads of the operands themselves, where there is one loop over columns.
std::vector<Buffer> rows_to_ask_for(const PrimFunc& f, const BlockInfo& root,
                                    const std::vector<std::string>& rows, int64_t length,
                                    const Target& target);

// Asks for the rows of the next group of `operands`; `grouped` is the loop over a group's rows.
void ask_for_rows(Schedule& s, const std::string& root, const std::string& grouped,
                  const std::vector<Buffer>& operands);

// Whether single rows, of `length` elements and in so many bytes of all operands, come too late.
bool waits_for_row(const BlockInfo& root, int64_t length, int64_t bytes, int64_t rows, const Target& target);

// Asks for the next row of `operands`, and its place unless stores go past the caches.
void ask_for_row(Schedule& s, const std::string& root, int64_t length, bool streaming,
                 const std::vector<Buffer>& operands, const Target& target);

}  // namespace nestor::library
