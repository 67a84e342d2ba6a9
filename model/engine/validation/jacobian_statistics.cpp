#include "model/engine/validation/jacobian_statistics.h"

#include <Eigen/SVD>
#include <cmath>

namespace isobar::engine {

records::JacobianRecord statistics_of(const std::vector<std::vector<float>>& samples, int64_t outputs,
                                      int64_t inputs) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto n = static_cast<double>(samples.size());
  records::JacobianRecord r{.samples = static_cast<int64_t>(samples.size())};
  Eigen::VectorXd sensitivity = Eigen::VectorXd::Zero(inputs);
  double frobenius = 0, condition = 0, sum = 0, squares = 0, largest = 0;
  for (const std::vector<float>& sample : samples) {
    const Eigen::MatrixXd J = Eigen::Map<const Matrix>(sample.data(), outputs, inputs).cast<double>();
    const Eigen::VectorXd values = Eigen::JacobiSVD<Eigen::MatrixXd>(J).singularValues();
    frobenius += J.norm() / n;
    condition += values(0) / values(values.size() - 1) / n;  // infinite if the smallest is 0
    sum += J.sum();
    squares += J.squaredNorm();
    largest = std::max(largest, J.cwiseAbs().maxCoeff());
    sensitivity += J.cwiseAbs().colwise().mean().transpose() / n;
  }
  const double elements = n * static_cast<double>(outputs * inputs), mean = sum / elements;
  r.frobenius = frobenius;
  if (std::isfinite(condition)) r.condition = condition;
  r.mean = sensitivity.mean();
  r.max = largest;
  r.std = std::sqrt(std::max(0.0, squares / elements - mean * mean));
  r.sensitivity.assign(sensitivity.data(), sensitivity.data() + inputs);
  return r;
}

}  // namespace isobar::engine
