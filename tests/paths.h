// Paths of this checkout and its build, or in a bundle (tests/gpu.sh) of what is packed of them, which
// ISOBAR_TEST_SOURCE and ISOBAR_TEST_BUILD name. Only paths.cpp is compiled with them, so that a compiler
// cache can share all other objects of the tests between checkouts.
#pragma once
#include <string>

namespace isobar {

std::string source_dir();
std::string build_dir();
/// The path of one of the tests' own preload libraries.
std::string preload(const std::string& name);

}  // namespace isobar
