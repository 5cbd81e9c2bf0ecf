/** Result of one check of the service or of this machine. */
export interface Check {
  name: string
  /** `skip`: it could not be tried, and `detail` says why. */
  status: 'ok' | 'warn' | 'fail' | 'skip'
  /** One sentence: what was seen, and the cause as far as it is known. */
  detail: string
  /** One sentence: what to do. */
  fix?: string
}

export const ok = (name: string, detail: string): Check => ({ name, status: 'ok', detail })
export const warn = (name: string, detail: string, fix: string): Check => ({ name, status: 'warn', detail, fix })
export const fail = (name: string, detail: string, fix: string): Check => ({ name, status: 'fail', detail, fix })
export const skip = (name: string, detail: string): Check => ({ name, status: 'skip', detail })
