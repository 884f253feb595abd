//! Answers remembered with their ETag: asked again with `If-None-Match`, an unchanged answer (304) costs nothing of the
//! rate budget.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::rate::Payer;

/// Largest answer that is kept, in bytes.
const MAX_BODY: usize = 256 << 10;
/// Most bytes kept in all.
const MAX_TOTAL: usize = 8 << 20;
/// Most answers kept.
const MAX_ANSWERS: usize = 2_000;

/// What an answer is kept under: who asked (one installation never sees what another may), for what, in which form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who asked.
    pub payer: Payer,
    /// The absolute URL.
    pub url: String,
    /// The media type asked for.
    pub accept: &'static str,
}

/// The cache, shared by all clients of an App. The oldest answers leave first.
#[derive(Clone, Default)]
pub struct EtagCache {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    answers: HashMap<Key, (String, Bytes)>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl EtagCache {
    /// The ETag and the body last seen.
    pub fn get(&self, key: &Key) -> Option<(String, Bytes)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).answers.get(key).cloned()
    }

    /// Keeps an answer, unless it is too large.
    pub fn put(&self, key: Key, etag: &str, body: &Bytes) {
        if body.len() > MAX_BODY {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        match inner.answers.insert(key.clone(), (etag.to_owned(), body.clone())) {
            Some((_, old)) => inner.bytes -= old.len(),
            None => inner.order.push_back(key),
        }
        inner.bytes += body.len();
        while inner.bytes > MAX_TOTAL || inner.order.len() > MAX_ANSWERS {
            let Some(oldest) = inner.order.pop_front() else { break };
            if let Some((_, body)) = inner.answers.remove(&oldest) {
                inner.bytes -= body.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(url: &str) -> Key {
        Key { payer: Payer::App, url: url.into(), accept: "json" }
    }

    #[test]
    fn the_newest_answer_is_kept_per_asker() {
        let cache = EtagCache::default();
        cache.put(key("a"), "1", &Bytes::from_static(b"one"));
        cache.put(key("a"), "2", &Bytes::from_static(b"two"));
        assert_eq!(cache.get(&key("a")), Some(("2".into(), Bytes::from_static(b"two"))));
        assert_eq!(cache.get(&Key { payer: Payer::Installation(1), ..key("a") }), None);
        assert_eq!(cache.inner.lock().unwrap().bytes, 3);
    }

    #[test]
    fn it_is_bounded() {
        let cache = EtagCache::default();
        cache.put(key("huge"), "1", &Bytes::from(vec![0; MAX_BODY + 1]));
        assert_eq!(cache.get(&key("huge")), None);
        for n in 0..100 {
            cache.put(key(&n.to_string()), "1", &Bytes::from(vec![0; MAX_BODY]));
        }
        assert!(cache.inner.lock().unwrap().bytes <= MAX_TOTAL);
        assert_eq!(cache.get(&key("0")), None);
        assert!(cache.get(&key("99")).is_some());
        for n in 0..3_000 {
            cache.put(key(&n.to_string()), "1", &Bytes::new());
        }
        assert!(cache.inner.lock().unwrap().answers.len() <= MAX_ANSWERS);
    }
}
