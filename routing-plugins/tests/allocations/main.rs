//! What is warm allocates nothing: decisions with loads, guards, reports, every picker, every published rule.

mod load;
mod pace;
mod pick;
mod policies;

use pointsman_test_support::alloc::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();
