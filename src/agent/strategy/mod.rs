//! How thinking, acting and observing are ordered. Generic over the task a strategy works on.
