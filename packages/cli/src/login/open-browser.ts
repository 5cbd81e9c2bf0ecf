import { spawn } from 'node:child_process'

/** The program that opens an address, without a shell, which would read the address as commands. */
const openers: Partial<Record<NodeJS.Platform, [program: string, ...args: string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
}

/** Whether a browser that opens here is in front of the person. */
export function hasBrowser(env: NodeJS.ProcessEnv, platform = process.platform): boolean {
  if (env.SSH_CONNECTION || env.SSH_TTY) return false
  return platform === 'darwin' || platform === 'win32' || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY)
}

/** Opens the address in the browser, if there is a program for that. The command does not wait for it. */
export function openBrowser(url: string): void {
  const [program, ...args] = openers[process.platform] ?? ['xdg-open']
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true })
  // The address is printed, too.
  child.on('error', () => {})
  child.unref()
}
