// Active reading time: counts while the page is in front and somebody uses it.

const IDLE = 45_000;
const REPORT = 30_000;
const MOST = 120;

/** @param {(seconds: number, isLeaving: boolean) => void} tell */
export function timeKeeper(tell) {
  let touched = performance.now();
  let from = touched;
  let seconds = 0;
  let wasInFront = !document.hidden;
  const count = () => {
    const now = performance.now();
    if (wasInFront) seconds += Math.max(0, Math.min(now, touched + IDLE) - from) / 1000;
    from = now;
    wasInFront = !document.hidden;
  };
  const report = (/** @type {boolean} */ isLeaving) => {
    count();
    if (seconds >= 1) tell(Math.min(Math.round(seconds * 10) / 10, MOST), isLeaving);
    if (seconds >= 1) seconds = 0;
  };
  const touch = () => {
    touched = performance.now();
  };
  for (const name of ["pointerdown", "pointermove", "keydown", "wheel"]) addEventListener(name, touch, { passive: true });
  document.addEventListener("visibilitychange", () => report(document.hidden));
  addEventListener("pagehide", () => report(true));
  setInterval(() => report(false), REPORT);
  return { touch };
}
