// What changes while the page is open: the review, the colours of the timeline, the check of the video.

import { ApiError, get, leaveIfLoggedOut, request } from "./api.js";

const REVIEW_EVERY = 3000;
const TIMELINE_EVERY = 1000;
const VIDEO_EVERY = 500;

/** @param {number} milliseconds */
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** @param {string} exam */
export function liveExam(exam) {
  return {
    /**
     * See what others decide.
     * @param {() => import("./api.js").Review} known @param {(review: import("./api.js").Review) => void} onNews
     * @param {() => void} onLost
     */
    async followReview(known, onNews, onLost) {
      for (;;) {
        await pause(REVIEW_EVERY);
        try {
          const headers = { "If-None-Match": `"v${known().version}"` };
          const answer = await request(`/api/exams/${exam}/review`, { headers, cache: "no-store" });
          const review = answer.status === 200 ? await answer.json() : null;
          if (review && review.version > known().version) onNews(review);
        } catch (error) {
          leaveIfLoggedOut(error);
          if (error instanceof ApiError && error.status === 0) onLost();
        }
      }
    },
    /** @param {(facts: import("./api.js").TimelineFacts) => void} onNews */
    async followTimeline(onNews) {
      for (;;) {
        try {
          const facts = /** @type {import("./api.js").TimelineFacts} */ (await get(`/api/exams/${exam}/timeline`));
          onNews(facts);
          if (facts.colour_state !== "working") return;
        } catch (error) {
          leaveIfLoggedOut(error);
        }
        await pause(TIMELINE_EVERY);
      }
    },
    /** @param {(video: {state: string, message: string}) => void} onNews */
    async waitForVideo(onNews) {
      for (;;) {
        await pause(VIDEO_EVERY);
        try {
          const { video } = await get(`/api/exams/${exam}`);
          onNews(video);
          if (video.state !== "checking") return;
        } catch (error) {
          leaveIfLoggedOut(error);
        }
      }
    },
  };
}
