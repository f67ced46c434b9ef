// Layers whose rows change a state: all of a row at once, and of it the numbers of one head.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using Numbers = std::vector<double>;
using Table = std::vector<Numbers>;  // [rows][numbers]

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Silu(double x) { return x * Sigmoid(x); }
double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// A row's numbers, `count` of them from `begin` on.
Numbers NumbersOf(const OwnedRows& rows, int64_t r, int64_t begin, int64_t count) {
  Numbers numbers(count);
  for (int64_t c = 0; c < count; ++c) numbers[c] = rows.At(r, begin + c);
  return numbers;
}

Table RowsOf(const OwnedRows& rows, int64_t begin, int64_t count) {
  Table table;
  for (int64_t r = 0; r < rows.rows().rows; ++r) table.push_back(NumbersOf(rows, r, begin, count));
  return table;
}

// The layer's convolution of rows, its columns from `begin` on.
Table Convolved(const Layer& layer, const Table& x, int64_t begin, bool silu) {
  const std::vector<int64_t>& shape = layer.tensors().at("convolution.weight").shape;
  const float* weight = layer.tensor("convolution.weight");
  const bool biased = layer.tensors().contains("convolution.bias");
  Table y = x;
  for (int64_t t = 0; t < std::ssize(x); ++t) {
    for (int64_t c = 0; c < std::ssize(x[t]); ++c) {
      double sum = biased ? layer.tensor("convolution.bias")[begin + c] : 0;
      for (int64_t tap = 0, taps = shape[1]; tap < taps; ++tap) {
        const int64_t from = t + tap - (taps - 1);
        if (from >= 0) sum += weight[(begin + c) * taps + tap] * x[from][c];
      }
      y[t][c] = silu ? Silu(sum) : sum;
    }
  }
  return y;
}

// RMS norm of `count` numbers from `begin` on.
void Norm(Numbers& row, int64_t begin, int64_t count, const float* weight, double eps) {
  double squares = 0;
  for (int64_t c = begin; c < begin + count; ++c) squares += row[c] * row[c];
  const double root = std::sqrt(squares / static_cast<double>(count) + eps);
  for (int64_t c = 0; c < count; ++c) row[begin + c] *= weight[c] / root;
}

// Numbers from `begin` on to a length, 1e-6 in its root.
void ToLengthOne(Numbers& row, int64_t begin, int64_t count, double factor) {
  double squares = 0;
  for (int64_t c = begin; c < begin + count; ++c) squares += row[c] * row[c];
  for (int64_t c = begin; c < begin + count; ++c) row[c] *= factor / std::sqrt(squares + 1e-6);
}

// matrix [out, x's] times x
Numbers Times(const float* matrix, int64_t out, const Numbers& x) {
  Numbers y(out);
  for (int64_t o = 0; o < out; ++o) {
    for (size_t i = 0; i < x.size(); ++i) y[o] += matrix[o * x.size() + i] * x[i];
  }
  return y;
}

// Number c of row t of a product, with what the row before brings, which is the product after it.
double Mixed(const Passage& passage, int product, int64_t t, int64_t c) {
  return passage.product(product).At(t, c) + (t > 0 ? passage.product(product + 1).At(t - 1, c) : 0);
}

// Rounded in f32, a row is off by a share of its largest number.
DefinedHead HeadOfRows(const Passage& passage, int head, Table rows) {
  constexpr double kRoundings = 128;
  const int64_t dim = passage.layer().attention().out_width() / passage.layer().example().num_heads;
  return [dim, head, rows = std::move(rows)](int64_t i) {
    double largest = 0;
    for (const double x : rows[i]) largest = std::max(largest, std::abs(x));
    return DefinedRow{Numbers(rows[i].begin() + head * dim, rows[i].begin() + (head + 1) * dim),
                      0x1p-23 * kRoundings * largest};
  };
}

}  // namespace

DefinedHead DefinedMamba2(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const Json& o = layer.options();
  const int64_t heads = layer.example().num_heads, dim = o["head_dim"], states = o["state_size"],
                groups = o.value("num_groups", int64_t{1}), inner = heads * dim,
                channels = inner + 2 * groups * states;
  const OwnedRows& in = passage.product(0);
  const Table x = Convolved(layer, RowsOf(in, inner, channels), 0, /*silu=*/true);
  const std::string norm = o.value("norm", "gate_first");
  Table out;
  std::vector<Table> memory(heads, Table(states, Numbers(dim)));
  for (int64_t t = 0; t < passage.n(); ++t) {
    Numbers& y = out.emplace_back(inner);
    for (int64_t h = 0; h < heads; ++h) {
      const double step = std::clamp<double>(
                       Softplus(in.At(t, inner + channels + h) + layer.tensor("dt_bias")[h]),
                       o.value("time_step_min", 0.0), o.value("time_step_max", 1e30)),
                   stays = std::exp(-std::exp(layer.tensor("a_log")[h]) * step);
      const int64_t b = inner + h / (heads / groups) * states, c = b + groups * states;
      for (int64_t p = 0; p < dim; ++p) {
        y[h * dim + p] = layer.tensor("d")[h] * x[t][h * dim + p];
        for (int64_t n = 0; n < states; ++n) {
          double& s = memory[h][n][p];
          s = stays * s + x[t][b + n] * step * x[t][h * dim + p];
          y[h * dim + p] += x[t][c + n] * s;
        }
      }
    }
    const auto gate = [&] {
      for (int64_t c = 0; c < inner; ++c) y[c] *= Silu(in.At(t, c));
    };
    if (norm != "norm_first") gate();
    const int64_t parts = norm == "none" ? 0 : o.value("norm_groups", int64_t{1});
    for (int64_t g = 0; g < parts; ++g) {
      const int64_t begin = g * inner / parts;
      Norm(y, begin, inner / parts, layer.tensor("norm.weight") + begin, o.value("norm_eps", 1e-5));
    }
    if (norm == "norm_first") gate();
  }
  return HeadOfRows(passage, head, std::move(out));
}

DefinedHead DefinedGatedDelta(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const Json& o = layer.options();
  const int64_t heads = layer.example().num_heads, key_heads = o.value("num_key_heads", heads),
                keys = o["key_dim"], values = o["value_dim"], all_keys = key_heads * keys;
  Table q = Convolved(layer, RowsOf(passage.product(0), 0, all_keys), 0, /*silu=*/true),
        k = Convolved(layer, RowsOf(passage.product(1), 0, all_keys), all_keys, /*silu=*/true);
  const Table v =
      Convolved(layer, RowsOf(passage.product(2), 0, heads * values), 2 * all_keys, /*silu=*/true);
  Table out;
  std::vector<Table> memory(heads, Table(keys, Numbers(values)));
  for (int64_t t = 0; t < passage.n(); ++t) {
    for (int64_t h = 0; h < key_heads; ++h) {
      ToLengthOne(q[t], h * keys, keys, 1 / std::sqrt(static_cast<double>(keys)));
      ToLengthOne(k[t], h * keys, keys, 1);
    }
    Numbers& y = out.emplace_back(heads * values);
    for (int64_t h = 0; h < heads; ++h) {
      const double step = Softplus(passage.product(4).At(t, h) + layer.tensor("dt_bias")[h]),
                   stays = std::exp(-std::exp(layer.tensor("a_log")[h]) * step),
                   beta = Sigmoid(passage.product(5).At(t, h)) *
                          (o.value("negative_eigenvalues", false) ? 2 : 1);
      const int64_t key = h / (heads / key_heads) * keys;
      for (int64_t c = 0; c < values; ++c) {
        double held = 0;
        for (int64_t f = 0; f < keys; ++f) held += k[t][key + f] * (memory[h][f][c] *= stays);
        const double change = beta * (v[t][h * values + c] - held);
        for (int64_t f = 0; f < keys; ++f) {
          memory[h][f][c] += k[t][key + f] * change;
          y[h * values + c] += q[t][key + f] * memory[h][f][c];
        }
      }
      Norm(y, h * values, values, layer.tensor("norm.weight"), o.value("norm_eps", 1e-6));
    }
    for (int64_t c = 0; c < heads * values; ++c) y[c] *= Silu(passage.product(3).At(t, c));
  }
  return HeadOfRows(passage, head, std::move(out));
}

DefinedHead DefinedKimiDelta(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const Json& o = layer.options();
  const int64_t heads = layer.example().num_heads, keys = o["key_dim"], values = o["value_dim"];
  Table q = Convolved(layer, RowsOf(passage.product(0), 0, heads * keys), 0, /*silu=*/true),
        k = Convolved(layer, RowsOf(passage.product(1), 0, heads * keys), heads * keys, /*silu=*/true);
  const Table v =
      Convolved(layer, RowsOf(passage.product(2), 0, heads * values), 2 * heads * keys, /*silu=*/true);
  // How much stays of what a head holds for number f of its keys.
  const auto stays = [&](int64_t t, int64_t h, int64_t f) {
    const double rate = std::exp(layer.tensor("a_log")[h]),
                 step = passage.product(3).At(t, h * keys + f) + layer.tensor("dt_bias")[h * keys + f];
    return std::exp(o.contains("lower_bound") ? o["lower_bound"].get<double>() * Sigmoid(rate * step)
                                              : -rate * Softplus(step));
  };
  Table out;
  std::vector<Table> memory(heads, Table(keys, Numbers(values)));
  for (int64_t t = 0; t < passage.n(); ++t) {
    Numbers& y = out.emplace_back(heads * values);
    for (int64_t h = 0; h < heads; ++h) {
      ToLengthOne(q[t], h * keys, keys, 1 / std::sqrt(static_cast<double>(keys)));
      ToLengthOne(k[t], h * keys, keys, 1);
      for (int64_t f = 0; f < keys; ++f) {
        for (int64_t c = 0; c < values; ++c) memory[h][f][c] *= stays(t, h, f);
      }
      for (int64_t c = 0; c < values; ++c) {
        double held = 0;
        for (int64_t f = 0; f < keys; ++f) held += k[t][h * keys + f] * memory[h][f][c];
        const double change = Sigmoid(passage.product(5).At(t, h)) * (v[t][h * values + c] - held);
        for (int64_t f = 0; f < keys; ++f) {
          memory[h][f][c] += k[t][h * keys + f] * change;
          y[h * values + c] += q[t][h * keys + f] * memory[h][f][c];
        }
      }
      Norm(y, h * values, values, layer.tensor("norm.weight"), o.value("norm_eps", 1e-5));
    }
    for (int64_t c = 0; c < heads * values; ++c) y[c] *= Sigmoid(passage.product(4).At(t, c));
  }
  return HeadOfRows(passage, head, std::move(out));
}

DefinedHead DefinedLightning(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const Json& o = layer.options();
  const int64_t heads = layer.example().num_heads, inner = layer.attention().out_width(), dim = inner / heads;
  Table out;
  std::vector<Table> memory(heads, Table(dim, Numbers(dim)));
  for (int64_t t = 0; t < passage.n(); ++t) {
    const auto active = [&](int product, int64_t c) { return Silu(passage.product(product).At(t, c)); };
    Numbers& y = out.emplace_back(inner);
    for (int64_t h = 0; h < heads; ++h) {
      const double slope = o.value("slope_factor", 1.0) *
                           std::pow(2.0, -8.0 * static_cast<double>(h + 1) / static_cast<double>(heads));
      for (int64_t f = 0; f < dim; ++f) {
        for (int64_t c = 0; c < dim; ++c) {
          double& s = memory[h][f][c];
          s = std::exp(-slope) * s + active(1, h * dim + f) * active(2, h * dim + c);
          y[h * dim + c] += active(0, h * dim + f) * s;
        }
      }
    }
    Norm(y, 0, inner, layer.tensor("norm.weight"), o.value("norm_eps", 1e-6));
    for (int64_t c = 0; c < inner; ++c) y[c] *= Sigmoid(passage.product(3).At(t, c));
  }
  return HeadOfRows(passage, head, std::move(out));
}

DefinedHead DefinedShortConvolution(const Passage& passage, int head, bool) {
  const int64_t width = passage.layer().attention().out_width();
  const OwnedRows& in = passage.product(0);
  Table x = RowsOf(in, 2 * width, width);
  for (int64_t t = 0; t < passage.n(); ++t) {
    for (int64_t c = 0; c < width; ++c) x[t][c] *= in.At(t, c);
  }
  Table y = Convolved(passage.layer(), x, 0, /*silu=*/false);
  for (int64_t t = 0; t < passage.n(); ++t) {
    for (int64_t c = 0; c < width; ++c) y[t][c] *= in.At(t, width + c);
  }
  return HeadOfRows(passage, head, std::move(y));
}

DefinedHead DefinedMamba(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const Json& o = layer.options();
  const int64_t inner = o["inner_size"], states = o["state_size"], rank = o["time_step_rank"],
                selected = rank + 2 * states;
  const OwnedRows& in = passage.product(0);
  const Table x = Convolved(layer, RowsOf(in, 0, inner), 0, /*silu=*/true);
  const auto weights = [&](const char* name, int64_t size) {
    const bool there = layer.tensors().contains(name);
    return there ? std::vector<float>(layer.tensor(name), layer.tensor(name) + size)
                 : std::vector<float>(size, 1);
  };
  const std::vector<float> t_norm = weights("t_norm.weight", rank), b_norm = weights("b_norm.weight", states),
                           c_norm = weights("c_norm.weight", states);
  Table out, memory(inner, Numbers(states));
  for (int64_t t = 0; t < passage.n(); ++t) {
    Numbers chosen = Times(layer.tensor("x.weight"), selected, x[t]);
    if (o.contains("norm_eps")) {
      Norm(chosen, 0, rank, t_norm.data(), o["norm_eps"]);
      Norm(chosen, rank, states, b_norm.data(), o["norm_eps"]);
      Norm(chosen, rank + states, states, c_norm.data(), o["norm_eps"]);
    }
    const Numbers steps =
        Times(layer.tensor("dt.weight"), inner, Numbers(chosen.begin(), chosen.begin() + rank));
    Numbers& y = out.emplace_back(inner);
    for (int64_t c = 0; c < inner; ++c) {
      const double step = Softplus(steps[c] + layer.tensor("dt.bias")[c]);
      y[c] = layer.tensor("d")[c] * x[t][c];
      for (int64_t n = 0; n < states; ++n) {
        double& s = memory[c][n];
        s = std::exp(-std::exp(layer.tensor("a_log")[c * states + n]) * step) * s +
            chosen[rank + n] * step * x[t][c];
        y[c] += chosen[rank + states + n] * s;
      }
      y[c] *= Silu(in.At(t, inner + c));
    }
  }
  return HeadOfRows(passage, head, std::move(out));
}

DefinedHead DefinedRgLru(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const int64_t heads = layer.example().num_heads, inner = layer.attention().out_width(),
                block = inner / heads;
  const Table x = Convolved(layer, RowsOf(passage.product(0), 0, inner), 0, /*silu=*/false);
  // Of number c, a product of its head's numbers.
  const auto gate = [&](const std::string& name, const Numbers& row, int64_t c) {
    const int64_t h = c / block, out = c % block;
    const float* weight = layer.tensor(name + ".weight") + h * block * block;
    double sum = layer.tensor(name + ".bias")[c];
    for (int64_t in = 0; in < block; ++in) sum += row[h * block + in] * weight[in * block + out];
    return Sigmoid(sum);
  };
  Table out;
  Numbers memory(inner);
  for (int64_t t = 0; t < passage.n(); ++t) {
    Numbers& y = out.emplace_back(inner);
    for (int64_t c = 0; c < inner; ++c) {
      const double stays = std::exp(-8 * gate("recurrent_gate", x[t], c) *
                                    Softplus(layer.tensor("recurrent_param")[c])),
                   taken = gate("input_gate", x[t], c) * x[t][c], z = passage.product(1).At(t, c);
      memory[c] = stays * memory[c] + (t == 0 ? 1 : std::sqrt(1 - stays * stays)) * taken;
      y[c] =
          memory[c] * 0.5 * z * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z)));
    }
  }
  return HeadOfRows(passage, head, std::move(out));
}

DefinedHead DefinedRwkv(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const int64_t inner = layer.attention().out_width();
  Table out;
  Numbers values(inner), weights(inner);
  for (int64_t t = 0; t < passage.n(); ++t) {
    Numbers& y = out.emplace_back(inner);
    for (int64_t c = 0; c < inner; ++c) {
      const double k = Mixed(passage, 0, t, c), v = Mixed(passage, 2, t, c),
                   own = std::exp(layer.tensor("bonus")[c] + k),
                   stays = std::exp(-std::exp(static_cast<double>(layer.tensor("decay")[c])));
      y[c] = Sigmoid(Mixed(passage, 4, t, c)) * (values[c] + own * v) / (weights[c] + own);
      values[c] = stays * values[c] + std::exp(k) * v;
      weights[c] = stays * weights[c] + std::exp(k);
    }
  }
  return HeadOfRows(passage, head, std::move(out));
}

DefinedHead DefinedRwkvChannel(const Passage& passage, int head, bool) {
  const int64_t inner = passage.layer().options()["inner_size"],
                all = passage.layer().attention().out_width();
  Table out;
  for (int64_t t = 0; t < passage.n(); ++t) {
    Numbers& y = out.emplace_back(all);
    for (int64_t c = 0; c < inner; ++c) y[c] = std::pow(std::max(0.0, Mixed(passage, 0, t, c)), 2);
    for (int64_t c = inner; c < all; ++c) y[c] = Mixed(passage, 2, t, c - inner);
  }
  return HeadOfRows(passage, head, std::move(out));
}

}  // namespace heed
