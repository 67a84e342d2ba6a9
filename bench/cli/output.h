// Standard output as every command needs it: what cannot be written is an error, not a success.
//
//   open_standard_streams();          // first thing in main()
//   return checked_output(run());     // last thing
#pragma once

namespace isobar {

/// A stream that the caller closed (`>&-`) becomes one that refuses what is written: else the next file that
/// is opened would take its number, and get what is printed. Standard output keeps up line by line. What is
/// written beyond the limit on file sizes is an error, not the process' end.
void open_standard_streams();

/// Flushes. Where something was not written it says so and returns 1, or 141 in silence if a reader has gone
/// (`| head`), as a shell shows a command that SIGPIPE ended; a code other than 0 stays.
int checked_output(int code);

}  // namespace isobar
