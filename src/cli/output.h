// Standard output may end before the verb does: `nestor inspect m.onnx | head`, a full disk.
#pragma once

namespace nestor::cli {

// A reader that has gone shows as a failed write (EPIPE) instead of a signal, so that what is under way
// unwinds and leaves no temporary file.
void watch_output();
// The exit code, once all output has been written; 1 and a message where it can't be.
int finish_output(int code);
// Ends the process as SIGPIPE would have, without a word, as shells expect of a pipe's left side.
void end_by_closed_pipe();

}  // namespace nestor::cli
