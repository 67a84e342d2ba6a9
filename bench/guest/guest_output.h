// The output of a run's program as it comes: both streams in the run's folder, the files that run.reads
// names, and the records in them.
//
//   GuestOutput output(spec, most_bytes, print);
//   while (…) output.read(take), output.too_much();     // take(record) of each
//   output.end(take);
//   output.result(log);                                 // what it makes of them
#pragma once
#include <functional>
#include <string>

#include "bench/guest/guest_log.h"
#include "bench/logs/followed_files.h"
#include "bench/logs/followed_text.h"
#include "bench/logs/output_reader.h"
#include "model/base/spec/spec.h"

namespace isobar::guest {

class GuestOutput {
 public:
  /// `most`: bytes of both streams; `print`: of each line, none: nothing. Throws ConfigError for run.reads.
  GuestOutput(const RunSpec& spec, int64_t most, std::function<void(const std::string&)> print);
  const std::filesystem::path& out() const { return out_.file(); }
  const std::filesystem::path& err() const { return err_.file(); }
  using Take = std::function<void(const records::Record&)>;
  /// True if the program wrote.
  bool read(const Take& take);
  void end(const Take& take);
  /// True once it is longer than is kept. Cuts the files to that, as often as it is called.
  bool too_much() const;
  /// The steps as the end of a run, with its notes. Without a step time in them, or with two numbers that
  /// contradict each other, a failure.
  records::EndRecord result(const GuestLog& log) const;
  int64_t last_step() const { return reader_.summary().last_step; }
  bool has_steps() const { return !reader_.summary().seconds.empty(); }
  /// The ends of both streams.
  const std::string& last_out() const { return out_.last(); }
  const std::string& last_err() const { return err_.last(); }
  /// True if the last loss is no number.
  bool lost() const;

 private:
  void pass(const Take& take);
  int64_t most_;
  std::string folder_;
  std::function<void(const std::string&)> print_;
  double begun_;
  logs::OutputReader reader_;
  logs::FollowedText out_, err_;
  logs::FollowedFiles files_;
};

}  // namespace isobar::guest
