import type { Tab } from './snippets.ts'

export interface ConnectSearch {
  tab?: Tab
  /** The agent to connect; its key is never in the address. */
  agent?: string
  /** The dialog that simulates an attack is open. */
  simulate?: true
}
