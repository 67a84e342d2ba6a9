// TensorBoard event files: TFRecords of TensorFlow's Event messages with one scalar or image each.
//
//   EventFile events("runs/first/tensorboard", now, {});    // events.out.tfevents.<now>.isobar
//   events.add(now, step, "Loss/train", 0.25);              // on its way to disk when it returns
//
// or all at once: event_file_head(begin) + event_record(time, step, tag, value) + …
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace isobar::records {

/// CRC-32C (Castagnoli), which TFRecord uses.
uint32_t crc32c(const std::string& data);
/// As it stands in a TFRecord.
uint32_t masked_crc32c(const std::string& data);
/// One TFRecord: length, masked CRC of the length, data, masked CRC of the data.
std::string tf_record(const std::string& data);

/// First bytes of a file; times are seconds since 1970.
std::string event_file_head(double wall_time);
std::string event_record(double wall_time, int64_t step, const std::string& tag, double value);
/// A row of TensorBoard's table of hyperparameters: `settings` is an object of texts, numbers and booleans;
/// other values are shown as text.
std::string event_hyperparameters(double wall_time, const nlohmann::json& settings);
std::string event_file_name(double wall_time);

class EventFile {
 public:
  /// Throws ConfigError if it cannot be created.
  EventFile(const std::filesystem::path& dir, double wall_time, const nlohmann::json& settings);
  /// Skips values that are not finite. Throws std::runtime_error if writing fails.
  void add(double wall_time, int64_t step, const std::string& tag, double value);
  /// `png`: an RGB image.
  void add_picture(double wall_time, int64_t step, const std::string& tag, const std::string& png);

 private:
  void write(const std::string& record);
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace isobar::records
