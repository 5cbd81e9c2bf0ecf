import { type CommandLogin, commandLoginPath } from '@wardline/contract'
import { call } from './client.ts'
import { keepAttempt } from './sign-in.ts'

export type { CommandLogin }

/** The page after a command line was logged in. */
const commandLoginDone = `${commandLoginPath}?done=true`

/** In the storage of the tab: the code outlives the way over the sign-in, and the history of the browser has none. */
const codeName = 'wardline.command-login'

/** Returns the code after the # of the address, which it removes there, or the one before the person signed in. */
export function takeCode(): string | undefined {
  const given = /^#([A-Z]{4}-[A-Z]{4})$/.exec(location.hash)?.[1]
  if (location.hash !== '') history.replaceState(history.state, '', location.pathname + location.search)
  try {
    if (given !== undefined) sessionStorage.setItem(codeName, given)
    return given ?? sessionStorage.getItem(codeName) ?? undefined
  } catch {
    return given
  }
}

/** The code is of no use any more, or the person types another one. */
export function forgetCode(): void {
  try {
    sessionStorage.removeItem(codeName)
  } catch {
    // Nothing is kept where the storage is blocked.
  }
}

/** The command line that shows this code. Throws WardlineError. */
export const findCommandLogin = (code: string): Promise<CommandLogin> => call('findCommandLogin', { body: { code } })

/** Leads to the command line, which listens on this machine, or else to another address. */
export function leadOn({ redirect_url: to }: { redirect_url?: string }, otherwise = commandLoginDone): void {
  location.replace(to !== undefined && /^http:\/\/127\.0\.0\.1:\d+\/\?/.test(to) ? to : otherwise)
}

/** Allows the login, for a person by the provider. Throws WardlineError. */
export async function allowCommandLogin(code: string): Promise<void> {
  const { sign_in, ...done } = await call('approveCommandLogin', { body: { code } })
  forgetCode()
  if (!sign_in) return leadOn(done)
  keepAttempt({ secret: sign_in.secret, to: undefined, isConfirmation: false, isCommandLine: true })
  location.replace(sign_in.url)
}

/** Refuses the login, of which the command line reads if it listens on this machine. Throws WardlineError. */
export async function refuseCommandLogin(code: string): Promise<void> {
  const done = await call('denyCommandLogin', { body: { code } })
  forgetCode()
  leadOn(done, `${commandLoginPath}?refused=true`)
}
