//! Whether the process lives, and whether it can take deliveries.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Intake;

/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// `GET /healthz`: the process answers. Says nothing of the database, so that a database that is away does not get the
/// process killed.
pub async fn alive() -> &'static str {
    "ok"
}

/// `GET /readyz`: the database and the queue in it are usable, with the queue's numbers; 503 otherwise.
pub async fn ready(State(intake): State<Intake>) -> (StatusCode, Json<Value>) {
    let depth = async {
        intake.db.ping().await?;
        intake.queue.depth().await
    };
    match tokio::time::timeout(PATIENCE, depth).await {
        Ok(Ok(depth)) => {
            let queue = json!({
                "queued": depth.queued,
                "planned": depth.planned,
                "running": depth.running,
                "dead": depth.dead,
                "oldest_due_ms": depth.oldest_due_ms,
            });
            (StatusCode::OK, Json(json!({ "ready": true, "database": "ok", "queue": queue })))
        }
        Ok(Err(error)) => {
            tracing::error!(error = %error, "Not ready: the database fails");
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ready": false, "database": "fails" })))
        }
        Err(_) => {
            tracing::error!("Not ready: the database does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ready": false, "database": "does not answer" })))
        }
    }
}
