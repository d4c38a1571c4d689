// The source file of a function's kernels: a comment with the launches, helper functions, kernels.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "nestor/codegen.h"
#include "nestor/parse.h"
#include "src/codegen/cuda_source.h"

namespace nestor {

namespace {

std::string sizes(const std::array<int64_t, 3>& d) {
  if (d[1] == 1 && d[2] == 1) return std::to_string(d[0]);
  return fmt::format("({}, {}, {})", d[0], d[1], d[2]);
}

// The parts of a source file, in the order in which they stand in it.
struct SourceParts {
  std::string comments, kernels;
  CudaHelpers helpers;            // between the two
  std::vector<int> kernel_lines;  // for each line of `kernels`, the line of the printed function
};

// Its comments and kernels, added to `out`.
CudaProgram add_function(const PrimFunc& lowered, const Target& target, const Printed* printed,
                         SourceParts& out) {
  const KernelParts parts = cut_kernels(lowered, target);
  CudaProgram program;
  std::vector<std::string> names;
  for (const Param& p : lowered.params) names.push_back(p.decl.buffer->name);
  for (const BufferDecl& d : parts.temporaries) {
    program.temporary_bytes.push_back(elements_of(d) * bytes_of(d.buffer->type.dtype));
    names.push_back(d.buffer->name);
  }
  out.comments += fmt::format("// {}, for {}. Launched in this order, on one stream:\n", lowered.name,
                              target.sm.empty() ? "CUDA" : target.sm);
  for (const KernelPart& part : parts.kernels) {
    std::string args;
    for (const int a : part.launch.args) args += (args.empty() ? "" : ", ") + names[static_cast<size_t>(a)];
    out.comments += fmt::format("//   {}<<<{}, {}>>>({})\n", part.launch.name, sizes(part.launch.grid),
                                sizes(part.launch.block), args);
    CudaWriter writer(part, out.helpers, printed);
    out.kernels += "\n" + writer.write();
    out.kernel_lines.push_back(0);
    out.kernel_lines.insert(out.kernel_lines.end(), writer.lines().begin(), writer.lines().end());
    program.kernels.push_back(part.launch);
    program.kernels.back().waits = writer.waits();
  }
  for (size_t t = 0; t < parts.temporaries.size(); ++t)
    out.comments += fmt::format("// {}: a temporary of {} bytes in device memory\n",
                                names[lowered.params.size() + t], program.temporary_bytes[t]);
  return program;
}

std::string text_of(const SourceParts& parts) {
  return parts.comments + helper_text(parts.helpers) + parts.kernels;
}

}  // namespace

CudaProgram make_cuda(const PrimFunc& lowered, const Target& target) {
  SourceParts parts;
  CudaProgram out = add_function(lowered, target, nullptr, parts);
  out.source = text_of(parts);
  return out;
}

CudaModule make_cuda_module(const std::vector<PrimFunc>& lowered, const Target& target) {
  SourceParts parts;
  CudaModule out;
  for (const PrimFunc& f : lowered) out.functions.push_back(add_function(f, target, nullptr, parts));
  out.source = text_of(parts);
  return out;
}

std::vector<CodeLine> emit_cuda_with_lines(const PrimFunc& lowered, const Target& target) {
  const PrimFunc func = parse_func(print(lowered));  // no node stands twice: each has one line
  const Printed printed = print_with_spans(func);
  SourceParts parts;
  add_function(func, target, &printed, parts);
  const std::string text = text_of(parts);
  const auto before = static_cast<size_t>(
      std::count(text.begin(), text.end() - static_cast<std::ptrdiff_t>(parts.kernels.size()), '\n'));
  std::istringstream source(text);
  std::vector<CodeLine> out;
  for (std::string line; std::getline(source, line);) {
    const size_t at = out.size();
    out.push_back({line, at < before ? 0 : parts.kernel_lines.at(at - before)});
  }
  return out;
}

}  // namespace nestor
