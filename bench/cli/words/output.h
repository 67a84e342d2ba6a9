// Standard output of every command: output that cannot be written is an error.
//
//   open_standard_streams();          // first thing in main()
//   return checked_output(run());     // last thing
#pragma once

namespace isobar::cli {

/// A stream that the caller closed (`>&-`) becomes one that refuses what is written: else the next file that
/// is opened would take its number, and get what is printed. Standard output keeps up line by line. What is
/// written beyond the limit on file sizes is an error, not the process' end.
void open_standard_streams();

/// Flushes. Lost output is reported and returns 1, or silently 141 if a reader has gone (`| head`), as a
/// shell reports a death by SIGPIPE; a code other than 0 is kept.
int checked_output(int code);

}  // namespace isobar::cli
