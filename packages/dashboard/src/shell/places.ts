import type { UseNavigateResult } from '@tanstack/react-router'

/** The screens behind the sign-in, in the order of the navigation; `key` comes after `g`. */
export const places = [
  { to: '/', name: 'Overview', key: 'o' },
  { to: '/fleet', name: 'Fleet', key: 'f' },
  { to: '/containments', name: 'Containments', key: 'n' },
  { to: '/events', name: 'Events', key: 'e' },
  { to: '/decoys', name: 'Decoys', key: 'd' },
  { to: '/rules', name: 'Rules', key: 'r' },
  { to: '/alerts', name: 'Alerts', key: 'a' },
  { to: '/trust', name: 'Trust', key: 't' },
  { to: '/incidents', name: 'Incidents', key: 'b' },
  { to: '/audit', name: 'Audit', key: 'u' },
  { to: '/keys', name: 'Keys', key: 'k' },
  { to: '/connect', name: 'Connect', key: 'c' },
  { to: '/settings', name: 'Settings', key: 'i' },
] as const

/** Shown on a screen that nobody sits at, so it is not in the navigation. */
export const wallboard = { to: '/wallboard', name: 'Wallboard', key: 'w' } as const

/** Called by a key or a press, or the browser refuses the full screen; the wallboard then fills its window. */
export function openWallboard(navigate: UseNavigateResult<string>): void {
  document.documentElement.requestFullscreen?.().catch(() => {})
  void navigate({ to: wallboard.to })
}
