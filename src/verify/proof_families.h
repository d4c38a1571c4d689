// Families of terms, and their parts.
#pragma once

#include "src/verify/proof_guess.h"

namespace nestor::verify {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

class Families {
 public:
  // readers: the variables of the loads that are compared.
  Families(Matcher& m, std::vector<V> readers) : m_(m), readers_(std::move(readers)) {}

  // s over what a family's `where` is about.
  Set kept(const Family& f, const Set& s) const;
  // May one term come from several of the stores, or instances of one? Iterators don't tell the iterations of
  // all loops apart, and what is copied ahead comes from the loop before at first. It is one term, whatever
  // it comes from.
  bool overlap(const Family& f, const std::vector<Family>& stored) const;
  // The families by which of several stores their terms' loads read.
  std::vector<Family> by_stores(const std::vector<Family>& families);

 private:
  std::vector<Family> parts_of(const Family& f);

  Matcher& m_;
  const std::vector<V> readers_;
};

}  // namespace nestor::verify
