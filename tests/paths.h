// Where this checkout and its build lie. The only file that is told is paths.cpp: every other object of the
// tests is then the same in all checkouts of a machine, and a compiler cache shares it.
#pragma once
#include <string>

namespace isobar {

std::string source_dir();
std::string build_dir();
/// One of the tests' own libraries that are preloaded under a command.
std::string preload(const std::string& name);

}  // namespace isobar
