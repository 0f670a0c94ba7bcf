"""One skill a module. Each has `make(rng, part)`, which returns a Conversation, and most have `turn(rng, part)`, which
returns the messages of one exchange for conversations of several. `part` says whose words and phrasings may be used."""
