interface ViewsTable {
  id: string
  /** First key in the rotation chain of the creating key. */
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
