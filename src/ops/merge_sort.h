// A merge sort in the language of .nest files, for operators that keep lists while they run.
#pragma once

#include <fmt/format.h>

#include <string>

namespace nestor::ops {

// Statements that put the first `count` elements of the list I in order, so that each comes before those that
// it `precedes` or equals: an expression over two places in I, {0} and {1}. J has room for as many; both are
// i64, and W is i64[3]. Runs of W[0] places are in order, and two of them become one; W[1] and W[2] are where
// these two are.
inline std::string merge_sort(const std::string& count, const std::string& precedes) {
  const std::string first_precedes = fmt::format(fmt::runtime(precedes), "I[W[1]]", "I[W[2]]");
  return fmt::format(R"(
        W[0] = 1
        for pass in 31 {{
          if W[0] < {0} {{
            let width = W[0] {{
              let pairs = ({0} + 2*width - 1) / (2*width) {{
                for pair in pairs {{
                  let first = pair*2*width {{
                    let middle = min(first + width, {0}) {{
                      let end = min(first + 2*width, {0}) {{
                        W[1] = first
                        W[2] = middle
                        let places = end - first {{
                          for p in places {{
                            if (if W[1] >= middle then false else if W[2] >= end then true else {1}) {{
                              J[first+p] = I[W[1]]
                              W[1] = W[1] + 1
                            }} else {{
                              J[first+p] = I[W[2]]
                              W[2] = W[2] + 1
                            }}
                          }}
                        }}
                      }}
                    }}
                  }}
                }}
                for i in {0} {{ I[i] = J[i] }}
                W[0] = 2*width
              }}
            }}
          }}
        }})",
                     count, first_precedes);
}

}  // namespace nestor::ops
