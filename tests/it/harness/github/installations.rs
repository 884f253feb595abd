//! What owners do with repositories and with the App's installations on them.

use super::state::Installation;
use super::{FakeGitHub, webhook};

impl FakeGitHub {
    /// The repository gets another name; requests to the old one are redirected.
    pub fn rename(&self, repo: &str, name: &str) {
        let mut state = self.lock();
        let id = state.repo_named(repo).id;
        let repo = state.repo_by_id(id);
        let from = std::mem::replace(&mut repo.name, name.to_owned());
        let owner = repo.owner.clone();
        repo.former.push((owner, from.clone()));
        webhook::renamed(&mut state, id, "alice", &from);
    }

    /// The repository goes to another account. Where the App is installed there too (`installed`), that installation
    /// reaches it at once; GitHub tells both.
    pub fn transfer(&self, repo: &str, to: &str, installed: bool) {
        let mut state = self.lock();
        let state = &mut *state;
        state.account(to, "Organization");
        let id = state.repo_named(repo).id;
        let old = state.installations.iter_mut().find(|i| i.repos.contains(&id)).expect("an installation");
        old.repos.remove(&id);
        let old = old.id;
        for token in state.tokens.values_mut() {
            token.repos.remove(&id);
        }
        let repo = state.repo_by_id(id);
        let from = std::mem::replace(&mut repo.owner, to.to_owned());
        repo.former.push((from, repo.name.clone()));
        webhook::installation(state, old, "installation_repositories", "alice", "removed", &[id]);
        if installed {
            let new = match state.installations.iter_mut().find(|i| i.account == to) {
                Some(new) => {
                    new.repos.insert(id);
                    new.id
                }
                None => {
                    let new = state.id();
                    let repos = std::collections::BTreeSet::from([id]);
                    state.installations.push(Installation { id: new, account: to.into(), repos, suspended: false });
                    new
                }
            };
            webhook::installation(state, new, "installation_repositories", "alice", "added", &[id]);
        }
    }

    /// The App is installed on an account, with the repositories it has there: what GitHub tells of it.
    pub fn install(&self, account: &str) {
        let mut state = self.lock();
        let found = state.installations.iter().find(|i| i.account == account).expect("an installation");
        let (id, repos) = (found.id, found.repos.iter().copied().collect::<Vec<_>>());
        webhook::installation(&mut state, id, "installation", "alice", "created", &repos);
    }

    /// The owner puts the App to rest, or wakes it.
    pub fn suspend(&self, account: &str, suspended: bool) {
        let mut state = self.lock();
        let found = state.installations.iter_mut().find(|i| i.account == account).expect("an installation");
        found.suspended = suspended;
        let id = found.id;
        if suspended {
            state.tokens.retain(|_, token| token.installation != id);
        }
        let action = if suspended { "suspend" } else { "unsuspend" };
        webhook::installation(&mut state, id, "installation", "alice", action, &[]);
    }

    /// The repository is deleted, with everything in it.
    pub fn delete_repository(&self, repo: &str) {
        let mut state = self.lock();
        let id = state.repo_named(repo).id;
        webhook::deleted(&mut state, id, "alice");
        state.repos.retain(|repo| repo.id != id);
        for installation in &mut state.installations {
            installation.repos.remove(&id);
        }
    }

    /// The App is taken off a repository.
    pub fn remove_from_installation(&self, repo: &str) {
        let mut state = self.lock();
        let id = state.repo_named(repo).id;
        let installation = state.installations.iter_mut().find(|i| i.repos.contains(&id)).expect("an installation");
        installation.repos.remove(&id);
        let installation = installation.id;
        for token in state.tokens.values_mut() {
            token.repos.remove(&id);
        }
        webhook::installation(&mut state, installation, "installation_repositories", "alice", "removed", &[id]);
    }

    /// The App is uninstalled from an account.
    pub fn uninstall(&self, account: &str) {
        let mut state = self.lock();
        let found = state.installations.iter().find(|i| i.account == account).expect("an installation");
        let (id, repos) = (found.id, found.repos.iter().copied().collect::<Vec<_>>());
        webhook::installation(&mut state, id, "installation", "alice", "deleted", &repos);
        state.installations.retain(|installation| installation.id != id);
        state.tokens.retain(|_, token| token.installation != id);
    }
}
