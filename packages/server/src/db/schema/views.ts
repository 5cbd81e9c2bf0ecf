interface ViewsTable {
  id: string
  /** Key that made it: the first of its rotations. */
  owner: string
  name: string
  screen: string
  query: string
  shared: 0 | 1
  created_at: number
  changed_at: number
}

export interface ViewTables {
  views: ViewsTable
}
