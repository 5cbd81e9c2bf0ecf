import type { UseNavigateResult } from '@tanstack/react-router'
import { wallboard } from './places.ts'

/**
 * Call from a key or pointer event: otherwise the browser refuses full screen and the wallboard only fills its window.
 */
export function openWallboard(navigate: UseNavigateResult<string>): void {
  document.documentElement.requestFullscreen?.().catch(() => {})
  void navigate({ to: wallboard.to })
}
