"""What the benchmarks share: yardsticks, servers, rounds, figures and how they are shown."""
