// Paths of this checkout and its build. Only paths.cpp is compiled with them, so that a compiler cache can
// share all other objects of the tests between checkouts.
#pragma once
#include <string>

namespace isobar {

std::string source_dir();
std::string build_dir();
/// The path of one of the tests' own preload libraries.
std::string preload(const std::string& name);

}  // namespace isobar
