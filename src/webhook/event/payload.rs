//! The form of the payloads, cut down to the fields that are read.

use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::{Comment, Event, InstallationAction, Origin, PullAction, RepositoryAction};
use crate::github::{Repository, User};

/// Whether an event is one that may be acted on; that of an edit depends on what was edited.
pub(super) fn matters(event: &str, action: &str) -> bool {
    matches!(
        (event, action),
        ("pull_request", "opened" | "reopened" | "ready_for_review" | "synchronize" | "closed" | "edited")
            | ("pull_request_review_comment", "created")
            | ("pull_request_review_thread", "resolved" | "unresolved")
            | ("issue_comment", "created" | "edited")
            | ("check_run", "rerequested" | "requested_action")
            | ("check_suite", "rerequested")
            | ("merge_group", "checks_requested")
            | ("installation", "created" | "new_permissions_accepted" | "deleted" | "suspend" | "unsuspend")
            | ("installation_repositories", "added" | "removed")
            | ("installation_target", "renamed")
            | ("repository", "renamed" | "transferred" | "deleted")
    )
}

/// Reads the payload of an event we act on; `None` for all others. The error names the field.
pub(super) fn read(event: &str, action: &str, body: &[u8]) -> Result<Option<Event>, String> {
    if !matters(event, action) {
        return Ok(None);
    }
    Ok(Some(match (event, action) {
        ("pull_request", "opened" | "reopened" | "ready_for_review") => pull(body, PullAction::Opened)?,
        ("pull_request", "synchronize") => pull(body, PullAction::Synchronized)?,
        ("pull_request", "closed") => pull(body, PullAction::Closed)?,
        ("pull_request", "edited") => {
            let edit: Edit = json(body)?;
            match edit.changes.and_then(|changes| changes.base) {
                Some(_) => pull(body, PullAction::Retargeted)?,
                None => return Ok(None),
            }
        }
        ("pull_request_review_comment", "created") => {
            let payload: LineCommentPayload = json(body)?;
            Event::LineComment {
                origin: origin(body)?,
                number: payload.pull_request.number,
                comment: payload.comment.into(),
            }
        }
        ("pull_request_review_thread", "resolved" | "unresolved") => {
            let payload: PullPayload = json(body)?;
            Event::Thread { origin: origin(body)?, number: payload.pull_request.number, resolved: action == "resolved" }
        }
        ("issue_comment", "created" | "edited") => {
            let payload: TimelineCommentPayload = json(body)?;
            Event::TimelineComment {
                origin: origin(body)?,
                number: payload.issue.number,
                on_pull_request: payload.issue.pull_request.is_some(),
                comment: payload.comment.into(),
            }
        }
        ("check_run", "rerequested" | "requested_action") => {
            let payload: CheckRunPayload = json(body)?;
            let CheckDto { head_sha, name, app } = payload.check_run;
            Event::CheckRerequested { origin: origin(body)?, head_sha, name, app: app.map(|app| app.id) }
        }
        ("check_suite", "rerequested") => {
            let payload: CheckSuitePayload = json(body)?;
            let CheckDto { head_sha, app, .. } = payload.check_suite;
            Event::CheckRerequested { origin: origin(body)?, head_sha, name: None, app: app.map(|app| app.id) }
        }
        ("merge_group", "checks_requested") => {
            let payload: MergeGroupPayload = json(body)?;
            Event::MergeGroup { origin: origin(body)?, head_sha: payload.merge_group.head_sha }
        }
        ("installation", "created" | "new_permissions_accepted") => installation(body, InstallationAction::Present)?,
        ("installation", "deleted") => installation(body, InstallationAction::Deleted)?,
        ("installation", "suspend") => installation(body, InstallationAction::Suspended)?,
        ("installation", "unsuspend") => installation(body, InstallationAction::Unsuspended)?,
        ("installation_repositories", "added" | "removed") => {
            let payload: InstallationPayload = json(body)?;
            Event::InstallationRepositories {
                installation: payload.installation.id,
                account: payload.installation.account(),
                added: repositories(payload.repositories_added),
                removed: repositories(payload.repositories_removed),
            }
        }
        ("installation_target", "renamed") => {
            let payload: TargetPayload = json(body)?;
            let Some(WithId { id: installation }) = payload.installation else { return Ok(None) };
            Event::AccountRenamed { installation, account: payload.account.name().unwrap_or_default() }
        }
        ("repository", "renamed" | "transferred") => repository(body, RepositoryAction::Moved)?,
        ("repository", "deleted") => repository(body, RepositoryAction::Deleted)?,
        _ => return Ok(None),
    }))
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    // The reader's message names fields and types and may quote a value; only its kind and place are passed on.
    serde_json::from_slice(body).map_err(|error| match error.to_string().split_once('`') {
        Some((what @ ("missing field " | "duplicate field "), rest)) => {
            format!("{what}{}", rest.split('`').next().unwrap_or_default())
        }
        _ => format!("unexpected value at line {}, column {}", error.line(), error.column()),
    })
}

fn pull(body: &[u8], action: PullAction) -> Result<Event, String> {
    let payload: PullPayload = json(body)?;
    Ok(Event::Pull { origin: origin(body)?, number: payload.pull_request.number, action })
}

/// The part that all events of a repository share. Read by a pass of its own: flattened into the others, serde would first
/// copy the whole payload into memory.
fn origin(body: &[u8]) -> Result<Origin, String> {
    let place: Place = json(body)?;
    Ok(Origin {
        installation: place.installation.map(|installation| installation.id),
        repository: place.repository.into(),
        sender: place.sender.map(User::from),
    })
}

fn installation(body: &[u8], action: InstallationAction) -> Result<Event, String> {
    let payload: InstallationPayload = json(body)?;
    Ok(Event::Installation {
        installation: payload.installation.id,
        account: payload.installation.account(),
        action,
        repositories: repositories(payload.repositories),
    })
}

fn repository(body: &[u8], action: RepositoryAction) -> Result<Event, String> {
    Ok(Event::Repository { origin: origin(body)?, action })
}

fn repositories(list: Option<Vec<RepositoryDto>>) -> Vec<Repository> {
    list.unwrap_or_default().into_iter().map(Repository::from).collect()
}

/// An id that the database can hold.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let id = u64::deserialize(deserializer)?;
    if i64::try_from(id).is_ok() { Ok(id) } else { Err(D::Error::custom("not an id")) }
}

fn optional_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Id>::deserialize(deserializer)?.map(|id| id.0))
}

/// A commit: SHA-1 or SHA-256 in hexadecimal digits.
fn sha<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let sha = String::deserialize(deserializer)?;
    let known = matches!(sha.len(), 40 | 64) && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    if known { Ok(sha) } else { Err(D::Error::custom("not a commit")) }
}

#[derive(Deserialize)]
struct Id(#[serde(deserialize_with = "id")] u64);

#[derive(Deserialize)]
struct WithId {
    #[serde(deserialize_with = "id")]
    id: u64,
}

#[derive(Deserialize)]
struct UserDto {
    #[serde(deserialize_with = "id")]
    id: u64,
    login: String,
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

impl From<UserDto> for User {
    fn from(user: UserDto) -> Self {
        Self { id: user.id, login: storable(&user.login), is_bot: user.kind.as_deref() == Some("Bot") }
    }
}

#[derive(Deserialize)]
struct OwnerDto {
    login: Option<String>,
}

#[derive(Deserialize)]
struct RepositoryDto {
    #[serde(deserialize_with = "id")]
    id: u64,
    name: String,
    full_name: Option<String>,
    owner: Option<OwnerDto>,
}

impl From<RepositoryDto> for Repository {
    fn from(repository: RepositoryDto) -> Self {
        // Lists of an installation name the owner only as a part of the full name.
        let full_name = repository.full_name.unwrap_or_default();
        let from_name = full_name.split_once('/').map(|(owner, _)| owner.to_owned());
        let owner = repository.owner.and_then(|owner| owner.login).or(from_name).unwrap_or_default();
        Self { id: repository.id, owner: storable(&owner), name: storable(&repository.name) }
    }
}

/// A name as PostgreSQL stores it, which takes no NUL. GitHub's names have none.
fn storable(name: &str) -> String {
    name.replace('\0', "")
}

#[derive(Deserialize)]
struct Place {
    installation: Option<WithId>,
    repository: RepositoryDto,
    sender: Option<UserDto>,
}

#[derive(Deserialize)]
struct Numbered {
    #[serde(deserialize_with = "id")]
    number: u64,
}

#[derive(Deserialize)]
struct PullPayload {
    pull_request: Numbered,
}

#[derive(Deserialize)]
struct Edit {
    changes: Option<Changes>,
}

#[derive(Deserialize)]
struct Changes {
    base: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct CommentDto {
    #[serde(deserialize_with = "id")]
    id: u64,
    #[serde(default, deserialize_with = "optional_id")]
    in_reply_to_id: Option<u64>,
    user: Option<UserDto>,
    body: Option<String>,
}

impl From<CommentDto> for Comment {
    fn from(comment: CommentDto) -> Self {
        Self {
            id: comment.id,
            in_reply_to: comment.in_reply_to_id,
            author: comment.user.map(User::from),
            body: comment.body.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct LineCommentPayload {
    pull_request: Numbered,
    comment: CommentDto,
}

#[derive(Deserialize)]
struct IssueDto {
    #[serde(deserialize_with = "id")]
    number: u64,
    pull_request: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct TimelineCommentPayload {
    issue: IssueDto,
    comment: CommentDto,
}

#[derive(Deserialize)]
struct CheckDto {
    #[serde(deserialize_with = "sha")]
    head_sha: String,
    name: Option<String>,
    app: Option<WithId>,
}

#[derive(Deserialize)]
struct CheckRunPayload {
    check_run: CheckDto,
}

#[derive(Deserialize)]
struct CheckSuitePayload {
    check_suite: CheckDto,
}

#[derive(Deserialize)]
struct Head {
    #[serde(deserialize_with = "sha")]
    head_sha: String,
}

#[derive(Deserialize)]
struct MergeGroupPayload {
    merge_group: Head,
}

#[derive(Deserialize)]
struct InstallationDto {
    #[serde(deserialize_with = "id")]
    id: u64,
    account: Option<AccountDto>,
}

impl InstallationDto {
    fn account(&self) -> String {
        self.account.as_ref().and_then(AccountDto::name).unwrap_or_default()
    }
}

impl AccountDto {
    fn name(&self) -> Option<String> {
        self.login.as_deref().or(self.slug.as_deref()).map(storable)
    }
}

/// A user or an organisation has a login, an enterprise a slug.
#[derive(Deserialize)]
struct AccountDto {
    login: Option<String>,
    slug: Option<String>,
}

#[derive(Deserialize)]
struct TargetPayload {
    account: AccountDto,
    installation: Option<WithId>,
}

#[derive(Deserialize)]
struct InstallationPayload {
    installation: InstallationDto,
    repositories: Option<Vec<RepositoryDto>>,
    repositories_added: Option<Vec<RepositoryDto>>,
    repositories_removed: Option<Vec<RepositoryDto>>,
}
