/** Values of a browser that blocks its storage, until a reload, and of workers, which have none. */
const inMemory = new Map<string, string>()

/** Returns what a page of this origin has stored under the name. */
export function readStored(name: string): string | undefined {
  try {
    return localStorage.getItem(name) ?? inMemory.get(name)
  } catch {
    return inMemory.get(name)
  }
}

/** Stores a value for all pages of this origin; undefined removes it. */
export function store(name: string, value: string | undefined): void {
  if (value === undefined) inMemory.delete(name)
  else inMemory.set(name, value)
  try {
    if (value === undefined) localStorage.removeItem(name)
    else localStorage.setItem(name, value)
  } catch {
    // It stays in memory.
  }
}
