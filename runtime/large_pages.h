/* What lies in large pages (runtime/large_pages.cpp says why), for C and C++. From half a page on: at most as
 * much again is taken for what is needed. */
#ifndef NESTOR_LARGE_PAGES_H
#define NESTOR_LARGE_PAGES_H

enum { NESTOR_LARGE_PAGE = 2 << 20, NESTOR_LEAST_IN_LARGE_PAGES = 1 << 20 };

#endif
