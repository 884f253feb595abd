#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| secondlook_fuzz::configuration::check(data));
