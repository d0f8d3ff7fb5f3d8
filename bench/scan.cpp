// A columnar scan as a C++ engineer would write it, for comparison only: the same boxes, the same order of columns and the same
// exact rows as our Scan, plain loops, left to -O3 -march=native. Compiled and called by bench/cpp_scan.py.
//
//   columns   `width` columns of n positions: dimension (u16) and outward-rounded box (f32); dimension 65535 is padding
//   rows      CSR: offsets, dimension, lo, hi, weight (f64), in the order in which scores are summed
//   event     dense by dimension: key (f64, NaN where absent) and weight; float32 copies of the keys, rounded outward
#include <cstdint>
#include <cstring>

namespace {
constexpr int64_t kBlock = 1024;

inline void mask_column(int64_t n, const uint16_t* __restrict dims, const float* __restrict lo, const float* __restrict hi,
                        const float* __restrict key_lo, const float* __restrict key_hi, uint8_t* __restrict mask) {
    for (int64_t j = 0; j < n; ++j) {
        const uint16_t d = dims[j];
        mask[j] &= static_cast<uint8_t>((lo[j] <= key_hi[d]) & (key_lo[d] <= hi[j]));
    }
}
}  // namespace

extern "C" int64_t scan_event(int64_t n, int64_t width, const uint16_t* dims, const float* lo, const float* hi, const int64_t* offsets,
                              const uint16_t* row_dims, const double* row_lo, const double* row_hi, const double* row_weight,
                              const double* priority, const float* key_lo, const float* key_hi, const double* key, const double* weight,
                              int64_t* out_rows, double* out_scores) {
    alignas(64) uint8_t mask[kBlock];
    int64_t found = 0;
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t size = n - first < kBlock ? n - first : kBlock;
        std::memset(mask, 1, kBlock);
        for (int64_t c = 0; c < 2; ++c)
            mask_column(size, dims + c * n + first, lo + c * n + first, hi + c * n + first, key_lo, key_hi, mask);
        for (int64_t word = 0; word < kBlock; word += 8) {
            uint64_t bytes;
            std::memcpy(&bytes, mask + word, 8);
            if (bytes == 0) continue;
            for (int64_t j = word; j < word + 8 && j < size; ++j) {
                if (!mask[j]) continue;
                const int64_t r = first + j;
                bool holds = true;
                for (int64_t c = 2; c < width && holds; ++c) {
                    const int64_t at = c * n + r;
                    holds = lo[at] <= key_hi[dims[at]] && key_lo[dims[at]] <= hi[at];
                }
                double score = priority[r];
                for (int64_t e = offsets[r]; e < offsets[r + 1] && holds; ++e) {
                    const double k = key[row_dims[e]];
                    holds = row_lo[e] <= k && k <= row_hi[e];
                    score += row_weight[e] * weight[row_dims[e]];
                }
                if (holds) {
                    out_rows[found] = r;
                    out_scores[found++] = score;
                }
            }
        }
    }
    return found;
}
