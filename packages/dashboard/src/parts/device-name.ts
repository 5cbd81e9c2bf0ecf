// In this order: each of the first names itself after those that follow.
const browsers: [name: string, mark: RegExp][] = [
  ['Edge', /\bEdgA?\//],
  ['Opera', /\bOPR\//],
  ['Firefox', /\b(Firefox|FxiOS)\//],
  ['Chrome', /\b(Chrome|CriOS|HeadlessChrome)\//],
  ['Safari', /\bSafari\//],
]
const systems: [name: string, mark: RegExp][] = [
  ['Android', /\bAndroid\b/],
  ['iOS', /\b(iPhone|iPad)\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMacintosh\b/],
  ['Linux', /\bLinux\b/],
]

/** Returns the browser and system that a user agent claims, such as "Firefox on Linux"; undefined if it claims none. */
export function deviceName(userAgent: string): string | undefined {
  const named = (all: typeof browsers) => all.find(([, mark]) => mark.test(userAgent))?.[0]
  const browser = named(browsers)
  const system = named(systems)
  return browser && system ? `${browser} on ${system}` : (browser ?? system)
}
