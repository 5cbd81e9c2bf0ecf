/** Result of one check of the service or of this machine. */
export interface Check {
  name: string
  /** `skip`: not possible here, see `detail`. */
  status: 'ok' | 'warn' | 'fail' | 'skip'
  /** One sentence: the observation, and its cause if known. */
  detail: string
  /** One sentence: how to fix it. */
  fix?: string
}

export const ok = (name: string, detail: string): Check => ({ name, status: 'ok', detail })
export const warn = (name: string, detail: string, fix: string): Check => ({ name, status: 'warn', detail, fix })
export const fail = (name: string, detail: string, fix: string): Check => ({ name, status: 'fail', detail, fix })
export const skip = (name: string, detail: string): Check => ({ name, status: 'skip', detail })
