// The source file around the kernels of a function: what is launched and how, helpers, kernels.
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

// `lines`, if wanted, gets for each line of the source the line of `printed` that it comes from.
CudaProgram program_of(const PrimFunc& lowered, const Target& target, const Printed* printed,
                       std::vector<int>* lines) {
  const KernelParts parts = cut_kernels(lowered);
  CudaProgram out;
  std::vector<std::string> names;
  for (const Param& p : lowered.params) names.push_back(p.decl.buffer->name);
  for (const BufferDecl& d : parts.temporaries) {
    out.temporary_bytes.push_back(elements_of(d) * bytes_of(d.buffer->type.dtype));
    names.push_back(d.buffer->name);
  }
  out.source = fmt::format("// {}, for {}. Launched in this order, on one stream:\n", lowered.name,
                           target.sm.empty() ? "CUDA" : target.sm);
  CudaHelpers helpers;
  std::string kernels;
  std::vector<int> kernel_lines;
  for (const KernelPart& part : parts.kernels) {
    std::string args;
    for (const int a : part.launch.args) args += (args.empty() ? "" : ", ") + names[static_cast<size_t>(a)];
    out.source += fmt::format("//   {}<<<{}, {}>>>({})\n", part.launch.name, sizes(part.launch.grid),
                              sizes(part.launch.block), args);
    CudaWriter writer(part, helpers, printed);
    kernels += "\n" + writer.write();
    kernel_lines.push_back(0);
    kernel_lines.insert(kernel_lines.end(), writer.lines().begin(), writer.lines().end());
    out.kernels.push_back(part.launch);
  }
  for (size_t t = 0; t < parts.temporaries.size(); ++t)
    out.source += fmt::format("// {}: a temporary of {} bytes in device memory\n",
                              names[lowered.params.size() + t], out.temporary_bytes[t]);
  out.source += helper_text(helpers);
  if (lines) {
    lines->assign(static_cast<size_t>(std::count(out.source.begin(), out.source.end(), '\n')), 0);
    lines->insert(lines->end(), kernel_lines.begin(), kernel_lines.end());
  }
  out.source += kernels;
  return out;
}

}  // namespace

CudaProgram make_cuda(const PrimFunc& lowered, const Target& target) {
  return program_of(lowered, target, nullptr, nullptr);
}

std::vector<CodeLine> emit_cuda_with_lines(const PrimFunc& lowered, const Target& target) {
  const PrimFunc func = parse_func(print(lowered));  // no node stands twice: each has one line
  const Printed printed = print_with_spans(func);
  std::vector<int> lines;
  std::istringstream source(program_of(func, target, &printed, &lines).source);
  std::vector<CodeLine> out;
  for (std::string text; std::getline(source, text);) out.push_back({text, lines.at(out.size())});
  return out;
}

}  // namespace nestor
