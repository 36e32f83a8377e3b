"""`muster release`: give waiting workloads back as their authors wrote them."""
