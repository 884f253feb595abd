//! Where a line of an older version went in a newer one, by content and not by number.
