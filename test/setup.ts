/** What every test file has: the built-in environments. Files that share a process load this one each, and what it imports once. */
import "../worlds/register.ts";
