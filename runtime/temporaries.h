// The temporary files of this process, so that a signal handler can remove them.
#pragma once

#include <string>

namespace nestor::temporaries {

// While one lives, a signal that would end the process waits: several renames happen together.
class Hold {
 public:
  Hold();
  ~Hold();
  Hold(const Hold&) = delete;
};

// A new file that only its owner may read, its name made of a pattern that ends in XXXXXX; -1 and errno where
// there is none.
int create(std::string& pattern);
int rename(const std::string& from,
           const std::string& to);  // 0 or the error; then it is no temporary any more
void remove(const std::string& path);

}  // namespace nestor::temporaries
