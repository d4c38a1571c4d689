// The worker protocol: a Job as one JSON line, the answer to it as one JSON line.
#pragma once

#include <string>
#include <vector>

#include "nestor/tune.h"

namespace nestor {

inline constexpr size_t kMostSamples = 10'000;
inline constexpr size_t kLongestTrace = 1 << 20, kLongestDetail = 500;
inline constexpr size_t kLongestAnswer = 1 << 20;

std::string to_json_line(const Job& job);
Job job_from_json(const std::string& line);

// The record of a job about which nothing is known yet but what was asked.
Record record_of(const Job& job);

// What only the worker knows of a record.
std::string answer_of(const Record& record);
// An answer is input: it is matched to the job by its id, only what the worker alone can know is taken from
// it, and no time is longer than `elapsed_ns`, after which it came. What is no answer is Outcome::bad_answer.
Record read_answer(const Job& job, const std::string& line, double elapsed_ns);
Record bad_answer(const Job& job, const std::string& why);

// Times of a call: groups of calls, after one to warm up, for `seconds`, or until it is clearly slower than
// `cutoff_ns` (0: nothing), or longer where it can't be told apart from that.
std::vector<double> time_calls(const std::function<void()>& call, double seconds, double cutoff_ns);

std::string is_not_used(const Record& r, const std::string& db, const PrimFunc& f, const std::string& why);

double median(std::vector<double> values);  // of one or more

}  // namespace nestor
