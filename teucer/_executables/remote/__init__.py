"""The cache of a team: a store elsewhere, behind the folder on disk (docs/guide/team_cache.md)."""
