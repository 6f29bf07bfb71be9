#include "io/metrics/live/post.hpp"

#include "base/check.hpp"

#include <curl/curl.h>
#include <memory>

namespace trivium {

namespace {

std::size_t ignore(const char* /*data*/, std::size_t size, std::size_t count, void* /*to*/)
{
    return size * count;
}

int has_to_stop(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t)
{
    return static_cast<const std::atomic<bool>*>(stop)->load() ? 1 : 0;
}

} // namespace

bool can_post() { return true; }

std::string post_json(const std::string& url, const std::string& body, double seconds,
                      const std::atomic<bool>& stop)
{
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
    if (started != CURLE_OK || curl == nullptr)
        return "libcurl does not start";
    const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(
        curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all);
    const auto milliseconds = static_cast<long>(1000 * seconds);
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L); // other threads have the signals
    curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, milliseconds);
    curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT_MS, milliseconds);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &ignore);
    curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, &has_to_stop);
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, const_cast<std::atomic<bool>*>(&stop));
    const CURLcode code = curl_easy_perform(curl.get());
    if (code != CURLE_OK)
        return curl_easy_strerror(code);
    long status = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    return status >= 200 && status < 300 ? "" : str("the server answers with status ", status);
}

} // namespace trivium
