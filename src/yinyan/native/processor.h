// Which variants of the kernels the processor and its operating system can run.
#pragma once
#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

extern "C" {

// 1: AVX2 and what else -march=x86-64-v3 uses; 2: AVX-512 (x86-64-v4) with VNNI. Bits as in variants.py.
uint32_t processor_features() {
#if defined(__x86_64__)
  unsigned a, b, c, d, extended_c, seven_b = 0, seven_c = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  const unsigned first_c = c;
  const unsigned v3_first = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;  // FMA MOVBE OSXSAVE AVX F16C
  if ((first_c & v3_first) != v3_first) return 0;
  if (!__get_cpuid(0x80000001, &a, &b, &extended_c, &d) || !(extended_c & 1u << 5)) return 0;  // LZCNT
  if (!__get_cpuid_count(7, 0, &a, &seven_b, &seven_c, &d)) return 0;
  const unsigned v3_seven = 1u << 3 | 1u << 5 | 1u << 8;  // BMI1 AVX2 BMI2
  uint32_t low, high;  // of the registers that the operating system saves
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((seven_b & v3_seven) != v3_seven || (low & 0x6) != 0x6) return 0;
  const unsigned v4_seven = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // AVX-512 F DQ CD BW VL
  const bool is_wide = (seven_b & v4_seven) == v4_seven && (seven_c & 1u << 11) && (low & 0xE6) == 0xE6;  // VNNI
  return is_wide ? 3 : 1;
#else
  return 0;
#endif
}

}  // extern "C"
