// What a library of kernels says of itself, so that nothing else is called in its place: of which sources it was made,
// and where the fields of its structures stand. `loading.py` computes both again and compares.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#ifndef YINYAN_SOURCES
#error "YINYAN_SOURCES is the digest of the sources: see sources_digest in loading.py"
#endif

namespace abi {

struct Field {  // or a whole structure, at 0
  const char* name;
  uint64_t offset, size;
};

constexpr uint64_t mixed(uint64_t digest, uint64_t number) { return (digest ^ number) * 0x100000001B3ull; }  // FNV-1a

constexpr uint64_t layout_of(std::initializer_list<Field> fields) {
  uint64_t digest = 0xCBF29CE484222325ull;
  for (const Field& field : fields) {
    for (const char* letter = field.name; *letter; ++letter) digest = mixed(digest, uint64_t(*letter));
    digest = mixed(mixed(digest, field.offset), field.size);
  }
  return digest;
}

}  // namespace abi

#define STRUCTURE(type) abi::Field{#type, 0, sizeof(type)}
#define FIELD(type, name) abi::Field{#name, offsetof(type, name), sizeof(type::name)}

extern "C" {

uint64_t source_digest() { return YINYAN_SOURCES; }

}  // extern "C"
