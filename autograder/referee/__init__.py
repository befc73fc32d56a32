"""The trusted side: runs the tests, sees the student's code only through proxies, and decides every mark."""
