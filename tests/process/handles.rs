//! Out of open files: connections that say nothing take them all. The process lives on, what it answered with 202 is
//! done, and when the connections are gone it works as before.

use std::time::Duration;

use secondlook::db::Backend;
use tokio::net::TcpStream;

use crate::campaign::calm;
use crate::seed::Seed;
use crate::story::{Act, Story};
use crate::verdict::Pages;
use crate::world::World;

/// Open files the process may have: less than SQLite, GitHub, the model and a few people take together.
const OPEN_FILES: u32 = 56;

#[test]
fn a_process_without_handles_recovers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let story =
            Story { number: 2_000, pulls: 2, phases: vec![vec![Act::Open(0), Act::Open(1)], vec![Act::Push(0)]] };
        let calm = calm(&story).await;
        let mut world = World::new(story.clone(), Backend::Sqlite, 1, Seed::new(5)).await.unwrap();
        world.homes[0].open_files = Some(OPEN_FILES);
        world.start(0);
        let address = world.programs[0].as_ref().unwrap().address().await.unwrap();
        for acts in &story.phases {
            let mut idle = Vec::new();
            for _ in 0..2 * OPEN_FILES {
                idle.push(TcpStream::connect(&address).await.unwrap());
            }
            acts.iter().for_each(|act| world.act(*act));
            // What it can do in this state it does; nothing is asserted of it but that it lives.
            let _ = tokio::time::timeout(Duration::from_secs(3), world.settle()).await;
            drop(idle);
            world.settle().await;
        }
        assert_eq!(Pages::of(&world, &story), calm.pages, "{}", world.said());
        world.github.reckon();
        let said = world.said();
        assert!(said.contains("Too many open files"), "the log says what was the matter:\n{said}");
    });
}
