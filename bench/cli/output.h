// Standard output of every command: output that cannot be written is an error.
//
//   open_standard_streams();          // first thing in main()
//   return checked_output(run());     // last thing
#pragma once

namespace isobar {

/// Replaces a stream that the caller closed (`>&-`) by one that refuses output: otherwise the next opened
/// file would get its number, and what is printed. Makes standard output line-buffered.
void open_standard_streams();

/// Flushes. Lost output is reported and returns 1, or silently 141 if a reader has gone (`| head`), as a
/// shell reports a death by SIGPIPE; a code other than 0 is kept.
int checked_output(int code);

}  // namespace isobar
