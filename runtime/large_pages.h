/* Memory in large pages (runtime/large_pages.cpp says why), for C and C++. Used from half a page on, so at
 * most twice the memory is allocated. */
#ifndef NESTOR_LARGE_PAGES_H
#define NESTOR_LARGE_PAGES_H

enum { NESTOR_LARGE_PAGE = 2 << 20, NESTOR_LEAST_IN_LARGE_PAGES = 1 << 20 };

#endif
