interface Related {
  id: string
  parent_id: string | null
}

/**
 * Orders instances to resume so that parents come before their children, and leaves out those that the suspension of a
 * parent holds which is not among them. `held`: suspended instances.
 */
export function parentsFirst<Row extends Related>(rows: readonly Row[], held: ReadonlyMap<string, unknown>): Row[] {
  const chosen = new Set(rows.map(({ id }) => id))
  const children = Map.groupBy(rows, ({ parent_id }) => parent_id)
  const isFree = ({ parent_id: parent }: Row) => parent === null || !(chosen.has(parent) || held.has(parent))
  const ordered = rows.filter(isFree)
  // Grows while it is read.
  for (const { id } of ordered) ordered.push(...(children.get(id) ?? []))
  return ordered
}

/** Returns the ids of parents that are not among the instances. */
export function parentsBeside(rows: readonly Related[]): string[] {
  const chosen = new Set(rows.map(({ id }) => id))
  return [...new Set(rows.flatMap(({ parent_id: parent }) => (parent === null || chosen.has(parent) ? [] : [parent])))]
}
